//! Password checks of requests, in the check queue that the broker uses too.

use std::net::IpAddr;
use std::sync::Arc;

use phalanx_access::{Check, CheckQueue};
use phalanx_guard::{Login, client};

use crate::auth::credentials::Credentials;
use crate::auth::passwords::Passwords;

/// Credentials that a client has sent, to be verified.
pub(crate) struct Attempt {
    pub(crate) passwords: Arc<Passwords>,
    pub(crate) credentials: Credentials,
    pub(crate) client: IpAddr,
}

impl Attempt {
    pub(crate) fn login(&self, queue: &CheckQueue<Self>) -> Login {
        // The same name in two files means two users.
        let user = (self.passwords.id(), self.credentials.name());
        queue.login(client(self.client), user, self.credentials.as_bytes())
    }
}

impl Check for Attempt {
    fn check(self, queue: &CheckQueue<Self>) -> bool {
        self.passwords.verify(&self.credentials, queue.now())
    }
}
