//! What runs in one process, and how it starts and stops
