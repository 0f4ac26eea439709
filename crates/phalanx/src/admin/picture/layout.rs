//! Layout: processors side by side, each a column of stages in wavefront order.

/// Left margin of the boxes, for arcs that enter from outside or go far down.
const LEFT: u32 = 60;
/// Right margin of the boxes, for arcs that go far up.
const RIGHT: u32 = 50;
pub(super) const BOX_WIDTH: u32 = 300;
pub(super) const BOX_HEIGHT: u32 = 121;
/// Vertical gap between boxes, for arcs between adjacent stages.
const GAP: u32 = 34;
const HEADING: u32 = 40;
const PANEL: u32 = LEFT + BOX_WIDTH + RIGHT;

/// The upper left corner of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) x: u32,
    pub(super) y: u32,
}

/// The layout of a picture.
pub(super) struct Layout {
    stages: usize,
    processors: usize,
    columns: usize,
}

impl Layout {
    pub(super) fn new(stages: usize, processors: usize, columns: usize) -> Self {
        Self { stages, processors, columns }
    }

    fn panel_height(&self) -> u32 {
        HEADING + self.stages as u32 * (BOX_HEIGHT + GAP)
    }

    pub(super) fn size(&self) -> (u32, u32) {
        let rows = self.processors.div_ceil(self.columns) as u32;
        (self.columns as u32 * PANEL, rows * self.panel_height())
    }

    fn panel(&self, processor: usize) -> (u32, u32) {
        let (row, column) = (processor / self.columns, processor % self.columns);
        (column as u32 * PANEL, row as u32 * self.panel_height())
    }

    /// The position of a processor's heading.
    pub(super) fn heading(&self, processor: usize) -> (u32, u32) {
        let (x, y) = self.panel(processor);
        (x + LEFT, y)
    }

    /// The upper left corner of a box.
    pub(super) fn place(&self, processor: usize, stage: usize) -> Place {
        let (x, y) = self.panel(processor);
        Place { x: x + LEFT, y: y + HEADING + stage as u32 * (BOX_HEIGHT + GAP) }
    }

    /// Whether all processors are in one row, so that arcs between any two boxes can be drawn.
    pub(super) fn is_one_row(&self) -> bool {
        self.processors <= self.columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_boxes_are_inside_and_apart() {
        for (stages, processors, columns) in [(1, 1, 1), (6, 2, 2), (60, 16, 4), (5, 7, 1)] {
            let layout = Layout::new(stages, processors, columns);
            let (width, height) = layout.size();
            let mut places: Vec<Place> = (0..processors)
                .flat_map(|p| (0..stages).map(move |s| (p, s)))
                .map(|(p, s)| layout.place(p, s))
                .collect();
            for place in &places {
                assert!(place.x + BOX_WIDTH <= width && place.y + BOX_HEIGHT <= height);
            }
            places.sort_by_key(|place| (place.x, place.y));
            for pair in places.windows(2) {
                let is_disjoint =
                    pair[0].x + BOX_WIDTH <= pair[1].x || pair[0].y + BOX_HEIGHT <= pair[1].y;
                assert!(is_disjoint, "{pair:?}");
            }
        }
    }
}
