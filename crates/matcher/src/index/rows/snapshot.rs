//! Snapshots: the readers' view of the index at one moment.

use std::sync::Arc;

use super::group::LANES;
use super::piece::Piece;
use super::schema::Schema;
use crate::index::code::column::Column;
use crate::index::code::dictionary::{Attribute, Dictionary};
use crate::index::code::event::Event;
use crate::index::options::Options;
use crate::simd::DetectedTier;
use crate::value::Value;

/// The index, in parts that snapshots share until they change.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) tier: DetectedTier,
    /// Version of this state; it must equal the version of each event matched with it.
    pub(crate) version: u64,
    pub(crate) dictionary: Arc<Dictionary>,
    /// The first schema has no slots.
    pub(crate) schemas: Vec<Arc<Schema>>,
    pub(crate) pieces: Vec<Arc<Piece>>,
    /// By slot: the schema of this slot alone.
    pub(crate) single: Vec<Option<u32>>,
    /// The schemas of several slots.
    pub(crate) multiple: Vec<u32>,
    /// Numbers of dropped schemas and pieces, for reuse.
    pub(crate) free_schemas: Vec<u32>,
    pub(crate) free_pieces: Vec<u32>,
}

impl State {
    pub(crate) fn new(options: Options) -> State {
        let mut state = State {
            tier: DetectedTier::new(options.tier),
            version: 0,
            dictionary: Arc::new(Dictionary::new(options.seed)),
            schemas: Vec::new(),
            pieces: Vec::new(),
            single: Vec::new(),
            multiple: Vec::new(),
            free_schemas: Vec::new(),
            free_pieces: Vec::new(),
        };
        state.add_schema(Vec::new());
        state
    }

    pub(crate) fn bytes(&self) -> usize {
        let pieces: usize = self.pieces.iter().map(|piece| piece.bytes).sum();
        let directories: usize = self.schemas.iter().map(|schema| schema.bytes()).sum();
        pieces + directories
    }
}

/// The state of an [`Index`](crate::Index) when the snapshot was taken. Any thread can match on it while the index
/// changes.
#[derive(Clone, Debug)]
pub struct Snapshot(pub(crate) Arc<State>);

impl Snapshot {
    /// Codes an event for this snapshot. Attributes that no filter names are ignored; of several values for
    /// one name the last counts.
    #[must_use]
    pub fn event(&self, attributes: &[(&str, Value<'_>)]) -> Event {
        let known = |(name, value): &(&str, _)| Some((self.attribute(name)?, *value));
        self.event_of(attributes.iter().filter_map(known))
    }

    /// Codes an event from attributes that were looked up before; see [`Attribute`] for how long they are valid.
    /// Attributes that are newer than this snapshot are ignored.
    #[must_use]
    pub fn event_of<'a>(
        &self,
        attributes: impl IntoIterator<Item = (Attribute, Value<'a>)>,
    ) -> Event {
        let dictionary = &self.0.dictionary;
        let mut event = dictionary.blank(self.0.version);
        for (attribute, value) in attributes {
            dictionary.set(&mut event, attribute, value);
        }
        event
    }

    /// Replaces the value of one attribute of a coded event, for an event in several variants.
    ///
    /// # Panics
    /// If another snapshot coded the event.
    pub fn set(&self, event: &mut Event, attribute: Attribute, value: Value<'_>) {
        self.0.check_version(event);
        self.0.dictionary.set(event, attribute, value);
    }

    /// Version of the index. It grows with every change; two snapshots without a change between them have the same
    /// version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.0.version
    }

    /// Looks an attribute up by name; `None` if no filter names it.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<Attribute> {
        self.0.dictionary.attribute(name)
    }

    /// Size and arrangement of the index, for inspection.
    #[must_use]
    pub fn shape(&self) -> Shape {
        let mut shape = Shape { schemas: 0, pieces: self.0.pieces.len(), ..Shape::default() };
        for column in &self.0.dictionary.slots {
            shape.slots += usize::from(!matches!(column, Column::Unused));
            shape.ordered += usize::from(matches!(column, Column::Order(_)));
            shape.constants += column.constants();
        }
        let there = || self.0.schemas.iter().filter(|schema| !schema.is_dropped());
        shape.schemas = there().count();
        shape.multiple = there().filter(|schema| schema.slots.len() > 1).count();
        for cluster in self.0.pieces.iter().flat_map(|piece| &piece.clusters) {
            shape.clusters += 1;
            shape.loose += cluster.records().count();
            for group in &cluster.groups {
                shape.rows += group.ids.len();
                shape.lanes += group.ids.len().next_multiple_of(LANES);
            }
        }
        shape
    }
}

/// Size and arrangement of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Number of slots, one for each way in which filters test an attribute.
    pub slots: usize,
    /// Number of slots that compare the order of values.
    pub ordered: usize,
    /// Number of constants that filters compare with attributes, and of ends of their ranges.
    pub constants: usize,
    /// Number of attribute sets under which subscriptions are filed, including the empty one.
    pub schemas: usize,
    /// Number of attribute sets with several attributes.
    pub multiple: usize,
    /// Number of pieces, which are scheduled and copied as a whole. Some may be empty.
    pub pieces: usize,
    /// Number of attribute values that have subscriptions.
    pub clusters: usize,
    /// Number of conjunctions in columns.
    pub rows: usize,
    /// Number of conjunctions for which the columns have space.
    pub lanes: usize,
    /// Number of conjunctions that are checked one by one.
    pub loose: usize,
}
