// The app may read the secrets of a key vault that is there already.

param keyVaultName string
param identityId string
param identityPrincipalId string

var roles = {
  secretsUser: '4633458b-17de-408a-b874-0445c86b69e6' // Key Vault Secrets User
}

resource vault 'Microsoft.KeyVault/vaults@2023-07-01' existing = {
  name: keyVaultName
}

resource appReadsSecrets 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(vault.id, identityId, roles.secretsUser)
  scope: vault
  properties: {
    principalId: identityPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roles.secretsUser)
  }
}
