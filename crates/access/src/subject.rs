//! The client that requests access.

/// A client, by its user name and client identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'a> {
    /// The user, authenticated by password or certificate; `None` for an anonymous client.
    pub user: Option<&'a str>,
    /// The client identifier.
    pub client: &'a str,
}
