//! Tests of the filter language and of the index through their public API.

mod common;
mod computed;
mod index;
mod language;
mod queues;
mod reuse;
