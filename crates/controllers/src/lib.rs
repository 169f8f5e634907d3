//! Control loops: Job and garbage collection
