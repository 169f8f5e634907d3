//! Builders, fixtures and Home for tests
