//! The index: subscriptions arranged so that an event has to be compared with few of them.
//!
//! | folder | contents |
//! |---|---|
//! | `code` | the `dictionary` and its `column`s, and conditions and events in its codes |
//! | `rows` | a `schema` leads to `piece`s, a piece to `cluster`s, a cluster to `group`s of rows; `snapshot` |
//! | `read` | `matching` finds the rows of one event, `queues` those of a cohort |
//! | `write` | [`Index`], the only writer |
//!
//! In `write`, `coding` turns conditions into codes, and `placing` files rows under schemas. `advice` chooses
//! schemas from statistics when the mix of subscriptions changes. `arranging` controls that reorganization,
//! and `refiling` moves rows in small steps.

pub(crate) mod code;
mod options;
pub(crate) mod read;
pub(crate) mod rows;
mod subscription;
mod write;

pub use options::Options;
pub use subscription::Subscription;
pub use write::index::Index;
