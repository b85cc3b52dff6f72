# As check.sh, which says what it needs.
$ErrorActionPreference = 'Stop'

if ($env:POLLER_CHECK -eq 'skip') {
    Write-Host 'poller check: skipped, since POLLER_CHECK is skip'
    exit 0
}
if ($env:POLLER_PRIVATE_NETWORK -eq 'true' -and $env:POLLER_CHECK -ne 'run') {
    Write-Host 'poller check: skipped, since the storage account has no public endpoint. Inside the network: azd env set POLLER_CHECK run'
    exit 0
}
if (-not (Get-Command poller -ErrorAction SilentlyContinue)) {
    Write-Error 'poller check: there is no command poller here. Install it, or: azd env set POLLER_CHECK skip'
}
foreach ($name in 'BLOB', 'QUEUE', 'TABLE') {
    $endpoint = [Environment]::GetEnvironmentVariable("POLLER_${name}_ENDPOINT")
    if (-not $endpoint) { Write-Error "POLLER_${name}_ENDPOINT is not set: azd env refresh" }
    [Environment]::SetEnvironmentVariable("AzureWebJobsStorage__$($name.ToLower())ServiceUri", $endpoint)
}
foreach ($name in 'AzureWebJobsStorage', 'AzureWebJobsStorage__credential', 'AzureWebJobsStorage__clientId') {
    Remove-Item "Env:$name" -ErrorAction SilentlyContinue
}
poller check
exit $LASTEXITCODE
