//! The work of the library when the program has been loaded.

use crate::calls::threads::home_calls;
use crate::fork;
use crate::lifecycle::{forks, settings};

pub(crate) extern "C" fn initialize() {
    settings::read();
    home_calls::look_up_all();
    forks::register(fork::end_in_parent, fork::reset_in_child);
}
