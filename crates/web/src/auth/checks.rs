//! Password checks of requests, in the queue that both servers have.

use std::net::IpAddr;
use std::sync::Arc;

use phalanx_access::{Check, CheckQueue};
use phalanx_guard::{Login, client};

use crate::auth::credentials::Credentials;
use crate::auth::passwords::Passwords;

/// Credentials that a client claims.
pub(crate) struct Attempt {
    pub(crate) passwords: Arc<Passwords>,
    pub(crate) credentials: Credentials,
    pub(crate) client: IpAddr,
}

impl Attempt {
    pub(crate) fn login(&self, queue: &CheckQueue<Self>) -> Login {
        // A user of one file is not that of another.
        let user = (self.passwords.id(), self.credentials.name());
        queue.login(client(self.client), user, self.credentials.as_bytes())
    }
}

impl Check for Attempt {
    fn check(self, queue: &CheckQueue<Self>) -> bool {
        self.passwords.verify(&self.credentials, queue.now())
    }
}
