//! Revisions, objects and the watch log
