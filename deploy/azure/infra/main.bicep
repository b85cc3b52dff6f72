// A function app of pollers in which nothing has a password. Storage takes no keys; there is one identity, and logs go by that
// too. `azd up` fills the parameters from main.parameters.json; docs/containers.md says which there are.
targetScope = 'subscription'

@description('Part of every name, and of the resource group\'s.')
@minLength(1)
@maxLength(40)
param environmentName string

param location string

@description('As in poller.toml: [functions] mode')
@allowed(['timer', 'queue'])
param mode string = 'timer'

@description('[state] store = "table" in poller.toml')
param tableState bool = false

@description('A network of the app\'s own, and no public endpoint of its storage.')
param privateNetwork bool = false

@allowed(['3.11', '3.12', '3.13'])
param pythonVersion string = '3.12'

@allowed([512, 2048, 4096])
param instanceMemoryMB int = 2048

@minValue(1)
@maxValue(1000)
param maximumInstanceCount int = 40

@allowed(['Standard_LRS', 'Standard_ZRS', 'Standard_GZRS'])
param storageSku string = 'Standard_LRS'

param stateContainer string = 'db-state'

@minValue(1)
param backupDays int = 90

@minValue(0)
param quarantineDays int = 0

@minValue(0)
param seenDays int = 0

@minValue(30)
@maxValue(730)
param logDays int = 30

@description('App settings that poller.toml names; a secret as a reference: @Microsoft.KeyVault(SecretUri=...).')
param appSettings object = {}

@description('A key vault whose secrets the app may read, and its resource group. Empty: none.')
param keyVaultName string = ''

param keyVaultGroup string = ''

@description('The object id of a group that operates pollers. Empty: nobody.')
param operatorsGroupId string = ''

@description('The object id of a group that looks, but not at rows in quarantine/. Empty: nobody.')
param lookersGroupId string = ''

var token = uniqueString(subscription().id, environmentName, location)
var tags = { 'azd-env-name': environmentName }
var queues = mode == 'queue'

resource group 'Microsoft.Resources/resourceGroups@2021-04-01' = {
  name: 'rg-${environmentName}'
  location: location
  tags: tags
}

module state 'state.bicep' = {
  name: 'state'
  scope: group
  params: {
    location: location
    tags: tags
    storageAccountName: 'poller${token}'
    identityName: 'id-${environmentName}'
    storageSku: storageSku
    stateContainer: stateContainer
    forFunctions: true
    queues: queues
    tables: tableState
    privateNetwork: privateNetwork
    backupDays: backupDays
    quarantineDays: quarantineDays
    seenDays: seenDays
    operatorsGroupId: operatorsGroupId
    lookersGroupId: lookersGroupId
  }
}

module network 'network.bicep' = if (privateNetwork) {
  name: 'network'
  scope: group
  params: {
    location: location
    tags: tags
    networkName: 'vnet-${environmentName}'
    storageId: state.outputs.storageId
    storageName: state.outputs.storageName
    services: concat(['blob'], queues ? ['queue'] : [], tableState ? ['table'] : [])
  }
}

module vault 'vault.bicep' = if (!empty(keyVaultName)) {
  name: 'vault'
  scope: resourceGroup(empty(keyVaultGroup) ? group.name : keyVaultGroup)
  params: {
    keyVaultName: keyVaultName
    identityId: state.outputs.identityId
    identityPrincipalId: state.outputs.identityPrincipalId
  }
}

module functions 'functions.bicep' = {
  name: 'functions'
  scope: group
  params: {
    location: location
    tags: tags
    appName: 'func-${environmentName}-${take(token, 6)}'
    planName: 'plan-${environmentName}'
    logsName: 'log-${environmentName}'
    insightsName: 'appi-${environmentName}'
    pythonVersion: pythonVersion
    instanceMemoryMB: instanceMemoryMB
    maximumInstanceCount: maximumInstanceCount
    logDays: logDays
    appSettings: appSettings
    subnetId: privateNetwork ? network!.outputs.appSubnetId : ''
    identityId: state.outputs.identityId
    identityClientId: state.outputs.identityClientId
    identityPrincipalId: state.outputs.identityPrincipalId
    packagesUrl: state.outputs.packagesUrl
    blobEndpoint: state.outputs.blobEndpoint
    queueEndpoint: state.outputs.queueEndpoint
    tableEndpoint: state.outputs.tableEndpoint
  }
  dependsOn: [vault] // else its settings are looked up before they may be read, and again only hours later
}

// What azd and its hook (hooks/check.sh) read.
output AZURE_RESOURCE_GROUP string = group.name
output POLLER_APP_NAME string = functions.outputs.appName
output POLLER_HOST_NAME string = functions.outputs.hostName
output POLLER_IDENTITY_NAME string = state.outputs.identityName
output POLLER_BLOB_ENDPOINT string = state.outputs.blobEndpoint
output POLLER_QUEUE_ENDPOINT string = state.outputs.queueEndpoint
output POLLER_TABLE_ENDPOINT string = state.outputs.tableEndpoint
output POLLER_PRIVATE_NETWORK bool = privateNetwork
