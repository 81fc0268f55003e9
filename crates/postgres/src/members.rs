//! Servers that share the database.
