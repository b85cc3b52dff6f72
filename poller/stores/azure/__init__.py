"""What the services of a storage account have in common.

`account` reads which account is meant, `client` makes the SDKs' clients, `transport` is the HTTP under them, `errors`
translates what they raise, `advice` says what to do about it.
"""
