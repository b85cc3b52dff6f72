"""What a user installs and deploys, and what the repository promises about itself."""
