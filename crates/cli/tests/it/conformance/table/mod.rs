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

use crate::conformance::case::Case;
use crate::conformance::tree::Facts;

/// Name and cases of a group.
pub(crate) type Group = (&'static str, Vec<Case>);

/// Every group. `facts` are properties of the files known only to the server under test.
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
