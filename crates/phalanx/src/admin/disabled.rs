//! Stand-in for the admin server when the feature `admin` is off.

use crate::program::StartError;

/// There is no admin server.
pub(crate) enum Admin {}

impl Admin {
    pub(crate) fn start(&self) -> Result<(), StartError> {
        match *self {}
    }
}
