//! Tables of suspended work: sessions, joins and timers.

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
