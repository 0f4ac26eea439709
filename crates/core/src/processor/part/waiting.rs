//! What waits on a processor for something other than its turn: sessions, joins and timers.

use std::cell::RefCell;

use crate::operation::join_table::JoinTable;
use crate::queue::timer_wheel::TimerWheel;
use crate::session::table::SessionTable;

#[derive(Default)]
pub(crate) struct Waiting {
    pub(crate) sessions: SessionTable,
    pub(crate) joins: JoinTable,
    pub(crate) timers: RefCell<TimerWheel>,
}
