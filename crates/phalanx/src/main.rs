//! Workload-aware scheduling in one binary
fn main() {}
