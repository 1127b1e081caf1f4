"""Who chose what: ids, reading, splitting, making up."""
