//! The packets of an accepted client, processed by methods of its connection.
//!
//! | file | packets |
//! |---|---|
//! | `flush.rs` | the batch of one read: PUBLISH, PUBREL, and acknowledgements |
//! | `publish.rs` | PUBLISH: routes the messages of the batch, and acknowledges them |
//! | `permission.rs` | waits for the authorization service's decisions |
//! | `subscribe.rs` | SUBSCRIBE and UNSUBSCRIBE |
//! | `authenticate.rs` | AUTH |

mod authenticate;
mod flush;
mod node_full;
mod permission;
mod publish;
mod subscribe;
