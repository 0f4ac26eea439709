//! Identifies the messages that a node hands over to another node, and the mark that follows them. Both carry two
//! subscription identifiers: the number of the adoption, and one of the constants below.

use crate::model::delivery::Identifiers;
use crate::model::message::Source;
use crate::model::subscriptions::group_id::group_id;

/// The second identifier of a handed-over message, and of the mark.
const HANDED: u32 = 1;
const MARK: u32 = 2;

/// The second identifier of a [cut](crate::model::moving::Cut).
const CUT: u32 = 3;

/// The topic of the mark.
pub(crate) const MARK_TOPIC: &str = "$cluster/mark";

/// The number that identifies a journal's adoption in messages between nodes.
pub(crate) fn adoption_id(journal: &str) -> u32 {
    group_id(journal)
}

/// The identifiers of a queued message when it is handed over after this adoption. Group messages, messages that were
/// handed over before, and marks keep their identifiers.
pub(crate) fn handed_over(queued: &Identifiers, adoption: u32) -> Identifiers {
    match queued {
        Identifiers::None => Identifiers::Many(vec![adoption, HANDED]),
        other => other.clone(),
    }
}

/// The identifiers of the mark.
pub(crate) fn mark(adoption: u32) -> Identifiers {
    Identifiers::Many(vec![adoption, MARK])
}

/// The identifiers of a cut.
pub(crate) fn cut() -> Identifiers {
    Identifiers::Many(vec![1, CUT])
}

/// Whether a message with these identifiers is a mark or a cut.
pub(crate) fn is_mark(identifiers: &Identifiers) -> bool {
    matches!(source_of(identifiers.get()), Source::Mark(_) | Source::Cut)
}

/// The source of a message with these identifiers, as the receiving node sees it.
pub(crate) fn source_of(identifiers: &[u32]) -> Source {
    match *identifiers {
        [] => Source::Node,
        [adoption, HANDED] => Source::Handed(adoption),
        [adoption, MARK] => Source::Mark(adoption),
        [_, CUT] => Source::Cut,
        [group, ..] => Source::Group(group),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_survive_a_second_handover() {
        let (first, second) = (adoption_id("a.1"), adoption_id("b.2"));
        let handed = handed_over(&Identifiers::None, first);
        assert_eq!(source_of(handed.get()), Source::Handed(first));
        for identifiers in [handed, mark(first), Identifiers::One([7])] {
            assert_eq!(handed_over(&identifiers, second), identifiers);
        }
        assert!(is_mark(&cut()) && source_of(cut().get()) == Source::Cut);
        assert!(is_mark(&mark(first)) && !is_mark(&Identifiers::One([MARK])));
        assert_eq!([&[][..], &[7]].map(source_of), [Source::Node, Source::Group(7)]);
    }
}
