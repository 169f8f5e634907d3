//! What every control loop stands on: caches, queues, back-off, events
