//! The listen addresses of a running server. One thread binds them and commands the processors to open,
//! change and close their listeners, so addresses can change without a restart.
//!
//! | file | idea |
//! |---|---|
//! | `bound` | the bound addresses, and the preparation of changes |
//! | `commands` | the command queues of the processors |
//! | `manager` | an operation on each processor that opens and closes its listeners |
//! | `inherited` | sockets opened before the server started |
//! | `unix_files` | the files of Unix sockets |

mod bound;
mod commands;
mod inherited;
mod manager;
mod unix_files;

pub use bound::{ListenerChange, Listeners};
pub use commands::CommandQueues;
pub use inherited::Inherited;
pub use manager::{ListenerControl, ListenerManager};
pub use unix_files::UnixFilesGuard;
