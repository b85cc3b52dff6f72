"""What the services of a storage account have in common.

`account` reads which account is meant, `credentials` signs in without a key, `transport` is the HTTP under the SDKs,
`errors` translates what they raise, `times` reads the server's clock.
"""
