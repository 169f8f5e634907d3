//! The Kubernetes API as one tower service
