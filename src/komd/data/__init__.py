"""Who chose what: ids, reading, splitting, generating."""
