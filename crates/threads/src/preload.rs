//! The work of the library when the program has been loaded.

use crate::fork;
use crate::lifecycle::{forks, settings};

pub(crate) extern "C" fn initialize() {
    settings::read();
    forks::register(fork::end_in_parent, fork::reset_in_child);
}
