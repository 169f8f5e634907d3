//! Simulated kubelets
