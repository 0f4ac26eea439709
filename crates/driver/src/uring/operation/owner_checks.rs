//! Paths that helper threads resolve.

use std::collections::HashMap;
use std::sync::Arc;

use crate::blocking_pool::Inbox;
use crate::unpark::Unparker;
use crate::uring::ring::wake::WakeEvent;
use crate::{Token, Unpark};

/// The paths that helper threads resolve for a driver.
pub(crate) struct OwnerChecks {
    pub(crate) jobs: HashMap<u64, Token>,
    pub(crate) next: u64,
    pub(crate) inbox: Arc<Inbox>,
}

impl OwnerChecks {
    pub(crate) fn new(unparker: &Arc<Unparker<WakeEvent>>) -> Self {
        let inbox = Inbox::new(Arc::clone(unparker) as Arc<dyn Unpark>);
        Self { jobs: HashMap::new(), next: 0, inbox }
    }
}
