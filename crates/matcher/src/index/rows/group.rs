//! A group: the subscriptions of one cluster with the same shape, in columns.
//!
//! A *block* holds 64 subscriptions. It has two lines per equality, 64 slots and 64 codes, and three lines
//! per interval: slots, low ends and widths. One comparison of vector registers checks one condition of all
//! 64. The subscriptions' numbers are stored separately, because they are needed only for matches.

use crate::index::code::event::Line;
use crate::index::code::residual::Residual;

/// Number of subscriptions in a block.
pub(crate) const LANES: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Number of equalities of each subscription; the intervals follow.
    pub(crate) equals: usize,
    pub(crate) ranges: usize,
    pub(crate) lines: Vec<Line>,
    /// The subscription in each row, with its flag.
    pub(crate) ids: Vec<u32>,
    /// Tables of 16 slots in use: by equalities from bit 0 on, by ranges from bit 4 on.
    pub(crate) tables: u8,
}

impl Group {
    pub(crate) fn new(equals: usize, ranges: usize) -> Group {
        Group { equals, ranges, lines: Vec::new(), ids: Vec::new(), tables: 0 }
    }

    /// Number of lines in a block.
    pub(crate) fn stride(&self) -> usize {
        2 * self.equals + 3 * self.ranges
    }

    pub(crate) fn bytes(&self) -> usize {
        64 * self.lines.len() + 4 * self.ids.len()
    }

    /// Appends a row. Its conditions must have the group's shape, without wide ones.
    pub(crate) fn push(&mut self, id: u32, residuals: &[Residual]) {
        let lane = self.ids.len() % LANES;
        if lane == 0 {
            let blank = Line([0; 64]);
            // Does not double the capacity, because the unused part would be most of the memory.
            let more = self.stride() * (1 + self.ids.len() / (8 * LANES));
            if self.lines.capacity() < self.lines.len() + self.stride() {
                self.lines.reserve_exact(more);
            }
            self.lines.resize(self.lines.len() + self.stride(), blank);
        }
        if self.ids.len() == self.ids.capacity() {
            self.ids.reserve_exact(16 + self.ids.len() / 8);
        }
        self.ids.push(id);
        self.set(self.ids.len() - 1, residuals);
    }

    fn set(&mut self, row: usize, residuals: &[Residual]) {
        let (block, lane) = (row / LANES * self.stride(), row % LANES);
        let (mut equal, mut range) = (block, block + 2 * self.equals);
        for residual in residuals {
            match *residual {
                Residual::Equal { slot, code } => {
                    self.lines[equal].0[lane] = slot;
                    self.lines[equal + 1].0[lane] = code;
                    self.tables |= 1 << (slot / 16);
                    equal += 2;
                }
                Residual::Range { slot, low, width } => {
                    self.lines[range].0[lane] = slot;
                    self.lines[range + 1].0[lane] = low;
                    self.lines[range + 2].0[lane] = width;
                    self.tables |= 1 << (4 + slot / 16);
                    range += 3;
                }
                Residual::Wide { .. } => unreachable!("wide conditions are kept loose"),
            }
        }
    }

    /// The conditions of a row.
    pub(crate) fn row(&self, row: usize) -> Vec<Residual> {
        let (block, lane) = (row / LANES * self.stride(), row % LANES);
        let at = |line: usize| self.lines[block + line].0[lane];
        let equals =
            (0..self.equals).map(|n| Residual::Equal { slot: at(2 * n), code: at(2 * n + 1) });
        let from = 2 * self.equals;
        let ranges = (0..self.ranges).map(|n| from + 3 * n).map(|line| Residual::Range {
            slot: at(line),
            low: at(line + 1),
            width: at(line + 2),
        });
        equals.chain(ranges).collect()
    }

    /// Removes a row; the last row takes its place. Returns the number of the subscription that moved.
    pub(crate) fn remove(&mut self, row: usize) -> Option<u32> {
        let last = self.ids.len() - 1;
        if row != last {
            let residuals = self.row(last);
            self.set(row, &residuals);
        }
        self.ids.swap_remove(row);
        if last.is_multiple_of(LANES) {
            self.lines.truncate(last / LANES * self.stride());
        }
        self.ids.get(row).copied()
    }

    /// Replaces the labels of an order slot.
    pub(crate) fn relabel(&mut self, slot: u8, moved: &[u8; 256]) {
        let (stride, from) = (self.stride(), 2 * self.equals);
        if self.ranges == 0 || self.tables & 1 << (4 + slot / 16) == 0 {
            return;
        }
        for block in self.lines.chunks_exact_mut(stride) {
            for range in block[from..].chunks_exact_mut(3) {
                for lane in 0..LANES {
                    if range[0].0[lane] == slot {
                        let (low, width) = (range[1].0[lane], range[2].0[lane]);
                        let (low, width) = relabel(low, width, moved);
                        range[1].0[lane] = low;
                        range[2].0[lane] = width;
                    }
                }
            }
        }
    }
}

/// The interval with its old labels replaced by new ones.
pub(crate) fn relabel(low: u8, width: u8, moved: &[u8; 256]) -> (u8, u8) {
    let high = low.wrapping_add(width).wrapping_add(1);
    let (low, high) = (moved[usize::from(low)], moved[usize::from(high)]);
    (low, high.wrapping_sub(low).wrapping_sub(1))
}
