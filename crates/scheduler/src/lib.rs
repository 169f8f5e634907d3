//! The shell around scheduler-core: views in, bindings out
