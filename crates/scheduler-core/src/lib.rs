//! Decides where the pods of a group go
