// Where pollers keep their state, and the identity that may reach it: a storage account without keys.
// Used by main.bicep (Functions) and by ../../container-apps/main.bicep.

param location string
param tags object = {}

@description('3 to 24 lower-case letters and digits, unique in Azure.')
@minLength(3)
@maxLength(24)
param storageAccountName string

param identityName string

@description('Standard_ZRS keeps a copy in each zone of the region, where it has zones.')
@allowed(['Standard_LRS', 'Standard_ZRS', 'Standard_GZRS'])
param storageSku string = 'Standard_LRS'

@description('The container that [state] names in poller.toml.')
param stateContainer string = 'db-state'

@description('The Functions host keeps its timers\' locks and the app\'s package in this account, and needs to own its blobs.')
param forFunctions bool = false

@description('[functions] mode = "queue"')
param queues bool = false

@description('[state] store = "table"')
param tables bool = false

@description('No public endpoint: whoever reaches the account needs a private one (network.bicep).')
param privateNetwork bool = false

@description('Days after which the backups of documents that a reset replaced are deleted.')
@minValue(1)
param backupDays int = 90

@description('Days after which a record of a row that was set aside is deleted, whether or not anybody looked at the row: 0 for never. Pollers remove what is settled by themselves (quarantine_ttl). This is a limit for personal data, and ends the wait of a row for good.')
@minValue(0)
param quarantineDays int = 0

@description('Days after which the records of what was delivered (audit_window) are deleted: more than the window has; 0 for never.')
@minValue(0)
param seenDays int = 0

@description('A group that operates pollers: status, pause, resets, rows that wait. Empty: nobody.')
param operatorsGroupId string = ''

@description('A group that looks: status, history, health, but not the rows in quarantine/. Empty: nobody.')
param lookersGroupId string = ''

var roles = {
  blobOwner: 'b7e6dc6d-f1e8-4753-8033-0f276bb0955b' // Storage Blob Data Owner
  blobContributor: 'ba92f5b4-2d11-453d-a403-e96b0029c9fe' // Storage Blob Data Contributor
  blobReader: '2a2b9908-6ea1-4ae2-8e65-a410df84e7d1' // Storage Blob Data Reader
  queueContributor: '974c5e8b-45b9-4653-ba55-5f855dd0fb88' // Storage Queue Data Contributor
  tableContributor: '0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3' // Storage Table Data Contributor
}

// Rows that failed are whole rows: https://learn.microsoft.com/azure/role-based-access-control/conditions-format
var notQuarantine = '((!(ActionMatches{\'Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read\'} AND NOT SubOperationMatches{\'Blob.List\'})) OR (@Resource[Microsoft.Storage/storageAccounts/blobServices/containers/blobs:path] StringNotLike \'quarantine/*\'))'

// Never state/, audit/ or control/. Without its document a poller stops, and an operator says where it goes on; the
// audit trail is what shows that there was a document: without both a poller begins again where start_from says.
var kept = concat(
  [{ prefix: 'backups', days: backupDays }],
  quarantineDays > 0 ? [{ prefix: 'quarantine', days: quarantineDays }] : [],
  seenDays > 0 ? [{ prefix: 'seen', days: seenDays }] : []
)

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2023-01-31' = {
  name: identityName
  location: location
  tags: tags
}

resource storage 'Microsoft.Storage/storageAccounts@2023-05-01' = {
  name: storageAccountName
  location: location
  tags: tags
  kind: 'StorageV2'
  sku: { name: storageSku }
  properties: {
    allowSharedKeyAccess: false
    defaultToOAuthAuthentication: true
    allowBlobPublicAccess: false
    allowCrossTenantReplication: false
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
    publicNetworkAccess: privateNetwork ? 'Disabled' : 'Enabled'
    networkAcls: {
      defaultAction: privateNetwork ? 'Deny' : 'Allow'
      bypass: 'None'
    }
  }
}

// A container that was deleted comes back; blobs need no such copies: a busy poller replaces its document at each
// heartbeat, and each of these versions would be kept and paid for. Resets make backups of their own.
resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2023-05-01' = {
  parent: storage
  name: 'default'
  properties: {
    containerDeleteRetentionPolicy: {
      enabled: true
      days: 14
    }
  }
}

resource state 'Microsoft.Storage/storageAccounts/blobServices/containers@2023-05-01' = {
  parent: blobs
  name: stateContainer
  properties: { publicAccess: 'None' }
}

resource packages 'Microsoft.Storage/storageAccounts/blobServices/containers@2023-05-01' = if (forFunctions) {
  parent: blobs
  name: 'app-package'
  properties: { publicAccess: 'None' }
}

resource lifecycle 'Microsoft.Storage/storageAccounts/managementPolicies@2023-05-01' = {
  parent: storage
  name: 'default'
  properties: {
    policy: {
      rules: [for one in kept: {
        name: one.prefix
        enabled: true
        type: 'Lifecycle'
        definition: {
          filters: {
            blobTypes: ['blockBlob']
            prefixMatch: ['${stateContainer}/${one.prefix}/']
          }
          actions: {
            baseBlob: {
              delete: { daysAfterModificationGreaterThan: one.days }
            }
          }
        }
      }]
    }
  }
  dependsOn: [state]
}

resource appOwnsBlobs 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (forFunctions) {
  name: guid(storage.id, identityName, roles.blobOwner)
  scope: storage
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.blobOwner)
  }
}

resource appWritesState 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!forFunctions) {
  name: guid(state.id, identityName, roles.blobContributor)
  scope: state
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.blobContributor)
  }
}

resource appWritesQueues 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (queues) {
  name: guid(storage.id, identityName, roles.queueContributor)
  scope: storage
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.queueContributor)
  }
}

resource appWritesTables 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (tables) {
  name: guid(storage.id, identityName, roles.tableContributor)
  scope: storage
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.tableContributor)
  }
}

resource operatorsWriteState 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(operatorsGroupId)) {
  name: guid(state.id, operatorsGroupId, roles.blobContributor)
  scope: state
  properties: {
    principalId: operatorsGroupId
    principalType: 'Group'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.blobContributor)
  }
}

// `poller check` looks whether messages may be read and removed.
resource operatorsWriteQueues 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (queues && !empty(operatorsGroupId)) {
  name: guid(storage.id, operatorsGroupId, roles.queueContributor)
  scope: storage
  properties: {
    principalId: operatorsGroupId
    principalType: 'Group'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.queueContributor)
  }
}

resource operatorsWriteTables 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (tables && !empty(operatorsGroupId)) {
  name: guid(storage.id, operatorsGroupId, roles.tableContributor)
  scope: storage
  properties: {
    principalId: operatorsGroupId
    principalType: 'Group'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.tableContributor)
  }
}

resource lookersReadState 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(lookersGroupId)) {
  name: guid(state.id, lookersGroupId, roles.blobReader)
  scope: state
  properties: {
    principalId: lookersGroupId
    principalType: 'Group'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.blobReader)
    condition: notQuarantine
    conditionVersion: '2.0'
  }
}

output storageId string = storage.id
output storageName string = storage.name
output blobEndpoint string = storage.properties.primaryEndpoints.blob
output queueEndpoint string = storage.properties.primaryEndpoints.queue
output tableEndpoint string = storage.properties.primaryEndpoints.table
output packagesUrl string = '${storage.properties.primaryEndpoints.blob}app-package'
output identityId string = identity.id
output identityName string = identity.name
output identityClientId string = identity.properties.clientId
output identityPrincipalId string = identity.properties.principalId
