//! The Kubernetes API as one tower service.
//!
//! In: HTTP requests, from a client in the same process (`ApiServer::client`) or from the network edge that wraps the
//! service. The identity of the client is a request extension.
//! Out: objects as stored, lists and watches built from the same bytes, and a `Status` for every refusal.
//! Promises: every write takes the same steps for every kind; a refusal names every cause; a write that changes
//! nothing causes no watch event; a watch is ordered and complete, or ends with 410. No body makes the server panic.
//! Never: scheduling decisions, a task of its own (the edge has one per connection), a clock or randomness that was not
//! passed in.

mod server; // the service: request in, the right step, response out
pub mod edge; // the network in front of it: TLS, authentication, limits
pub mod request; // reading a request: route, identity, media types, body
mod write; // a write from start to end; read this first
pub mod read; // get, list, watch and tables
mod response; // bodies, and the `Status` of refusals and confirmations
mod discovery; // documents about the API itself: discovery, OpenAPI, extension API
pub mod resources; // what the pipeline knows about a kind, and the kinds, one file each
mod audit; // a record of every write
mod metrics; // `/metrics`
mod health; // `/livez`, `/readyz` and `/healthz`

pub use audit::{AuditEntry, AuditSink};
pub use discovery::extension_api::{ExtensionHandler, ExtensionResponse};
pub use health::Health;
pub use metrics::ExtraMetrics;
pub use request::identity::Identity;
pub use resources::resource::Resource;
pub use response::body::Body;
pub use server::{ApiServer, BootstrapError, Config};
pub use write::expiry::EVENT_TTL;
