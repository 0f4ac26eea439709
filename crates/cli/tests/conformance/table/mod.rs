//! All cases, by group.

mod body;
mod conditional;
mod expect;
mod fields;
mod framing;
mod head;
mod host;
mod limits;
mod line;
mod methods;
mod paths;
mod persistence;
mod pipeline;
mod ranges;
mod targets;

use crate::case::Case;
use crate::tree::Facts;

/// A group's name and its cases.
pub(crate) type Group = (&'static str, Vec<Case>);

/// Every group. `facts` is what only the server under test knows of its files.
pub(crate) fn all(facts: &Facts) -> Vec<Group> {
    vec![
        ("request line", line::cases()),
        ("targets", targets::cases()),
        ("Host", host::cases()),
        ("fields", fields::cases()),
        ("framing", framing::cases()),
        ("chunked bodies", body::cases()),
        ("methods", methods::cases()),
        ("HEAD", head::cases()),
        ("conditions", conditional::cases(facts)),
        ("ranges", ranges::cases(facts)),
        ("Expect", expect::cases()),
        ("pipelining", pipeline::cases()),
        ("persistence", persistence::cases()),
        ("limits", limits::cases()),
        ("paths", paths::cases()),
    ]
}
