"""Makes the bucket of s3.toml at S3_ENDPOINT."""

import os

import boto3

client = boto3.client("s3", region_name="us-east-1", endpoint_url=os.environ["S3_ENDPOINT"])
client.create_bucket(Bucket="shop-poller-state")
