// The function app (Flex Consumption, Python), and where its logs go.

param location string
param tags object = {}
param appName string
param planName string
param logsName string
param insightsName string

@allowed(['3.11', '3.12', '3.13'])
param pythonVersion string

@allowed([512, 2048, 4096])
param instanceMemoryMB int

@minValue(1)
@maxValue(1000)
param maximumInstanceCount int

@minValue(30)
@maxValue(730)
param logDays int

@description('App settings that poller.toml names; a secret as a reference: @Microsoft.KeyVault(SecretUri=...).')
param appSettings object

@description('A subnet delegated to Microsoft.App/environments. Empty: no network of one\'s own.')
param subnetId string

param identityId string
param identityClientId string
param identityPrincipalId string
param packagesUrl string
param blobEndpoint string
param queueEndpoint string
param tableEndpoint string

var roles = {
  metricsPublisher: '3913510d-42f4-4e42-8a64-420c390055eb' // Monitoring Metrics Publisher
}

// The host and poller.toml (`connection = "AzureWebJobsStorage"`) read the same ones: docs/configuration.md.
var ownSettings = {
  AzureWebJobsStorage__blobServiceUri: blobEndpoint
  AzureWebJobsStorage__queueServiceUri: queueEndpoint
  AzureWebJobsStorage__tableServiceUri: tableEndpoint
  AzureWebJobsStorage__credential: 'managedidentity'
  AzureWebJobsStorage__clientId: identityClientId
  AZURE_CLIENT_ID: identityClientId // `identity = true` of a database
  APPLICATIONINSIGHTS_CONNECTION_STRING: insights.properties.ConnectionString
  APPLICATIONINSIGHTS_AUTHENTICATION_STRING: 'ClientId=${identityClientId};Authorization=AAD'
}

resource logs 'Microsoft.OperationalInsights/workspaces@2023-09-01' = {
  name: logsName
  location: location
  tags: tags
  properties: {
    sku: { name: 'PerGB2018' }
    retentionInDays: logDays
  }
}

resource insights 'Microsoft.Insights/components@2020-02-02' = {
  name: insightsName
  location: location
  tags: tags
  kind: 'web'
  properties: {
    Application_Type: 'web'
    WorkspaceResourceId: logs.id
    DisableLocalAuth: true
  }
}

resource appSendsTelemetry 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(insights.id, identityId, roles.metricsPublisher)
  scope: insights
  properties: {
    principalId: identityPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.metricsPublisher)
  }
}

resource plan 'Microsoft.Web/serverfarms@2024-04-01' = {
  name: planName
  location: location
  tags: tags
  kind: 'functionapp'
  sku: {
    name: 'FC1'
    tier: 'FlexConsumption'
  }
  properties: { reserved: true }
}

resource app 'Microsoft.Web/sites@2024-04-01' = {
  name: appName
  location: location
  tags: union(tags, { 'azd-service-name': 'pollers' })
  kind: 'functionapp,linux'
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: { '${identityId}': {} }
  }
  properties: {
    serverFarmId: plan.id
    httpsOnly: true
    keyVaultReferenceIdentity: identityId
    virtualNetworkSubnetId: empty(subnetId) ? null : subnetId
    siteConfig: {
      minTlsVersion: '1.2'
    }
    functionAppConfig: {
      deployment: {
        storage: {
          type: 'blobContainer'
          value: packagesUrl
          authentication: {
            type: 'UserAssignedIdentity'
            userAssignedIdentityResourceId: identityId
          }
        }
      }
      runtime: {
        name: 'python'
        version: pythonVersion
      }
      scaleAndConcurrency: {
        instanceMemoryMB: instanceMemoryMB
        maximumInstanceCount: maximumInstanceCount
      }
    }
  }
  dependsOn: [appSendsTelemetry]
}

resource settings 'Microsoft.Web/sites/config@2024-04-01' = {
  parent: app
  name: 'appsettings'
  properties: union(appSettings, ownSettings)
}

// Who publishes signs in; no password opens these doors.
resource noFtp 'Microsoft.Web/sites/basicPublishingCredentialsPolicies@2024-04-01' = {
  parent: app
  name: 'ftp'
  properties: { allow: false }
}

resource noPublishingPassword 'Microsoft.Web/sites/basicPublishingCredentialsPolicies@2024-04-01' = {
  parent: app
  name: 'scm'
  properties: { allow: false }
}

output appName string = app.name
output hostName string = app.properties.defaultHostName
