// A network in which the app runs and the storage account has its only endpoints. The database's network is yours to peer.

param location string
param tags object = {}
param networkName string
param storageId string
param storageName string
param addressPrefix string = '10.73.0.0/16'

@description('The services of the account that are used: blob, queue, table.')
param services array

resource network 'Microsoft.Network/virtualNetworks@2023-11-01' = {
  name: networkName
  location: location
  tags: tags
  properties: {
    addressSpace: { addressPrefixes: [addressPrefix] }
    subnets: [
      {
        name: 'app'
        properties: {
          addressPrefix: cidrSubnet(addressPrefix, 24, 1)
          delegations: [
            {
              name: 'flex-consumption'
              properties: { serviceName: 'Microsoft.App/environments' }
            }
          ]
        }
      }
      {
        name: 'endpoints'
        properties: {
          addressPrefix: cidrSubnet(addressPrefix, 24, 2)
          privateEndpointNetworkPolicies: 'Disabled'
        }
      }
    ]
  }

  resource app 'subnets' existing = {
    name: 'app'
  }

  resource endpoints 'subnets' existing = {
    name: 'endpoints'
  }
}

resource zones 'Microsoft.Network/privateDnsZones@2020-06-01' = [for service in services: {
  name: 'privatelink.${service}.${environment().suffixes.storage}'
  location: 'global'
  tags: tags
}]

resource links 'Microsoft.Network/privateDnsZones/virtualNetworkLinks@2020-06-01' = [for (service, i) in services: {
  parent: zones[i]
  name: '${networkName}-${service}'
  location: 'global'
  tags: tags
  properties: {
    registrationEnabled: false
    virtualNetwork: { id: network.id }
  }
}]

resource privateEndpoints 'Microsoft.Network/privateEndpoints@2023-11-01' = [for service in services: {
  name: '${storageName}-${service}'
  location: location
  tags: tags
  properties: {
    subnet: { id: network::endpoints.id }
    privateLinkServiceConnections: [
      {
        name: service
        properties: {
          privateLinkServiceId: storageId
          groupIds: [service]
        }
      }
    ]
  }
}]

resource records 'Microsoft.Network/privateEndpoints/privateDnsZoneGroups@2023-11-01' = [for (service, i) in services: {
  parent: privateEndpoints[i]
  name: 'default'
  properties: {
    privateDnsZoneConfigs: [
      {
        name: service
        properties: { privateDnsZoneId: zones[i].id }
      }
    ]
  }
  dependsOn: [links[i]]
}]

output appSubnetId string = network::app.id
