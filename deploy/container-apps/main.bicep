// `poller run` in Container Apps: as many replicas as you say, leases decide which works on which poller. For a resource
// group: az deployment group create --template-file deploy/container-apps/main.bicep (docs/containers.md).

param location string = resourceGroup().location

@description('Of the app, and part of every other name.')
@minLength(2)
@maxLength(20)
param appName string = 'pollers'

@description('An image made FROM ours, with poller.toml and the handlers in /app.')
param image string

@description('The registry the image is pulled from, by the app\'s identity, which needs AcrPull there. Empty: one that is open to all.')
param registryServer string = ''

@description('A subnet delegated to Microsoft.App/environments, where the database is reached from. Empty: none.')
param subnetId string = ''

@description('Two keep working while one is replaced.')
@minValue(1)
@maxValue(30)
param minReplicas int = 2

@description('More than minReplicas only with scalePoller.')
@minValue(1)
@maxValue(30)
param maxReplicas int = 2

@description('A poller by whose waiting rows replicas are added. Empty: none. It opens the endpoints of docs/http.md to the internet, with httpToken as their key.')
param scalePoller string = ''

@description('At least 16 characters, where scalePoller is set.')
@secure()
param httpToken string = ''

@description('Settings that poller.toml names and that may be read by all who see the app.')
param settings object = {}

@description('Secrets that poller.toml names: the setting, and the URL of the secret in a key vault that the app\'s identity may read. [{ setting: \'ORDERS_DB_URL\', url: \'https://...\' }]')
param secrets array = []

@description('[state] store = "table" in poller.toml')
param tableState bool = false

@minValue(1)
param backupDays int = 90

@minValue(0)
param quarantineDays int = 0

@description('The object id of a group that operates pollers. Empty: nobody.')
param operatorsGroupId string = ''

@description('The object id of a group that looks, but not at rows in quarantine/. Empty: nobody.')
param lookersGroupId string = ''

var token = uniqueString(resourceGroup().id, appName)
var scales = !empty(scalePoller)
var hostName = '${appName}.${apps.properties.defaultDomain}'
var alive = ['run', '--alive-file', '/tmp/poller-alive']

var plainSettings = union(settings, {
  AzureWebJobsStorage__blobServiceUri: state.outputs.blobEndpoint
  AzureWebJobsStorage__tableServiceUri: state.outputs.tableEndpoint
  AzureWebJobsStorage__credential: 'managedidentity'
  AzureWebJobsStorage__clientId: state.outputs.identityClientId
  AZURE_CLIENT_ID: state.outputs.identityClientId // `identity = true` of a database
  POLLER_HTTP_HOSTS: hostName
})

module state '../azure/infra/state.bicep' = {
  name: 'state'
  params: {
    location: location
    storageAccountName: 'poller${token}'
    identityName: 'id-${appName}'
    tables: tableState
    backupDays: backupDays
    quarantineDays: quarantineDays
    operatorsGroupId: operatorsGroupId
    lookersGroupId: lookersGroupId
  }
}

resource logs 'Microsoft.OperationalInsights/workspaces@2023-09-01' = {
  name: 'log-${appName}'
  location: location
  properties: {
    sku: { name: 'PerGB2018' }
    retentionInDays: 30
  }
}

resource apps 'Microsoft.App/managedEnvironments@2024-03-01' = {
  name: 'env-${appName}'
  location: location
  properties: {
    appLogsConfiguration: { destination: 'azure-monitor' }
    vnetConfiguration: empty(subnetId) ? null : { infrastructureSubnetId: subnetId }
    workloadProfiles: [
      {
        name: 'Consumption'
        workloadProfileType: 'Consumption'
      }
    ]
  }
}

// By this the workspace gets the logs without a key of its own.
resource toLogs 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: 'logs'
  scope: apps
  properties: {
    workspaceId: logs.id
    logs: [
      {
        categoryGroup: 'allLogs'
        enabled: true
      }
    ]
  }
}

resource app 'Microsoft.App/containerApps@2024-03-01' = {
  name: appName
  location: location
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: { '${resourceId('Microsoft.ManagedIdentity/userAssignedIdentities', 'id-${appName}')}': {} }
  }
  properties: {
    managedEnvironmentId: apps.id
    configuration: {
      activeRevisionsMode: 'Single'
      ingress: scales
        ? {
            external: true
            targetPort: 8080
            transport: 'http'
            allowInsecure: false
          }
        : null
      registries: empty(registryServer)
        ? []
        : [
            {
              server: registryServer
              identity: resourceId('Microsoft.ManagedIdentity/userAssignedIdentities', 'id-${appName}')
            }
          ]
      secrets: concat(
        map(secrets, one => {
          name: toLower(replace(one.setting, '_', '-'))
          keyVaultUrl: one.url
          identity: resourceId('Microsoft.ManagedIdentity/userAssignedIdentities', 'id-${appName}')
        }),
        scales ? [{ name: 'http-token', value: httpToken }] : []
      )
    }
    template: {
      // At SIGTERM the batch in hand is finished: at least the longest call of a handler (handler_timeout, by default 4m30s).
      terminationGracePeriodSeconds: 300
      containers: [
        {
          name: 'poller'
          image: image
          // No probe here runs a command: watch.sh looks at the file instead.
          command: ['sh', '-c', loadTextContent('watch.sh'), 'watch', 'poller']
          args: concat(alive, scales ? ['--http', '0.0.0.0:8080'] : [])
          env: concat(
            map(items(plainSettings), one => { name: one.key, value: one.value }),
            map(secrets, one => { name: one.setting, secretRef: toLower(replace(one.setting, '_', '-')) }),
            scales ? [{ name: 'POLLER_HTTP_TOKEN', secretRef: 'http-token' }] : []
          )
          resources: {
            cpu: json('0.5')
            memory: '1Gi'
          }
        }
      ]
      scale: {
        minReplicas: minReplicas
        maxReplicas: scales ? maxReplicas : minReplicas
        rules: scales
          ? [
              {
                name: 'rows'
                custom: {
                  type: 'metrics-api'
                  metadata: {
                    url: 'https://${hostName}/api/scale/${scalePoller}'
                    valueLocation: 'pending'
                    targetValue: '1000'
                    authMode: 'apiKey'
                    method: 'header'
                    keyParamName: 'x-functions-key'
                  }
                  auth: [
                    {
                      secretRef: 'http-token'
                      triggerParameter: 'apiKey'
                    }
                  ]
                }
              }
            ]
          : []
      }
    }
  }
}

output appName string = app.name
output identityName string = state.outputs.identityName
output identityPrincipalId string = state.outputs.identityPrincipalId
output blobEndpoint string = state.outputs.blobEndpoint
