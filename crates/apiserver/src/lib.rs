//! The Kubernetes API as one tower service.
//!
//! In: HTTP requests, from a client in the same process (`Server::client`) or from a network edge that wraps the
//! service; who asks travels as a request extension.
//! Out: objects as the store keeps them, lists and watches made of the same bytes, and a `Status` for every refusal.
//! Promises: every write takes the same steps whatever its kind; a refusal names every cause; a write that changes
//! nothing makes no event; a watch is ordered and complete, or says 410. No body makes the server panic.
//! Never: scheduling decisions, a task of its own (the edge has one per connection), a clock or
//! randomness that was not handed in.

mod write; // a write from start to end; read this first
pub mod request; // path and query → what is asked for
pub mod resource; // what the pipeline knows about a kind
mod resources; // the kinds, one file each
pub mod object; // a document of any kind
mod duplicates; // bytes → a document, noticing fields that stand there twice
mod strict; // unknown fields, duplicates and wrong types
mod metadata; // what only the server says about an object
mod admission; // what the cluster says about a write
mod encode; // object → what the store keeps
mod patch; // merge patches and JSON patches
mod strategic_merge; // merge patches that know the kind
mod delete; // deletion, graceful, held or at once
mod binding; // a pod gets its node
mod eviction; // a pod is asked to go
mod capacity; // how much of every node is taken
mod selection; // labels, fields and namespace that objects must have
mod versions; // stored bytes in the version asked for
pub mod table; // objects as rows for people
mod representation; // stored bytes in the form asked for
mod read; // get and list
mod watch; // events as a stream of lines
mod expiry; // objects that go by themselves
mod discovery; // what is served, told to clients
mod openapi; // the API as OpenAPI documents
mod static_document; // documents made once
mod negotiation; // the form that a client wants
mod status; // refusals and confirmations
mod body; // what an answer is made of
mod identity; // who asks
mod health; // whether all is well
mod metrics; // what is counted
mod extension_api; // what others in the process answer
mod audit; // who wrote
mod block_in_place; // work on a large body, beside the other requests
mod server; // the service around all of it
pub mod edge; // the network in front of it

pub use audit::{AuditEntry, AuditSink};
pub use body::Body;
pub use expiry::EVENT_TTL;
pub use extension_api::{ExtensionHandler, ExtensionResponse};
pub use health::Health;
pub use identity::Identity;
pub use metrics::ExtraMetrics;
pub use resource::Resource;
pub use server::{ApiServer, BootstrapError, Config};
