//! The servers that a request could not reach.

/// A set of servers of a group, by their numbers modulo 64.
#[derive(Clone, Copy, Default)]
pub(super) struct Tried(u64);

impl Tried {
    pub(super) fn has(self, member: usize) -> bool {
        self.0 >> (member % 64) & 1 == 1
    }

    pub(super) fn add(&mut self, member: usize) {
        self.0 |= 1 << (member % 64);
    }

    /// The number of servers not tried yet in a group of `count`.
    pub(super) fn left(self, count: usize) -> usize {
        count.min(64).saturating_sub(self.0.count_ones() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_left_until_all_were_tried() {
        let mut tried = Tried::default();
        tried.add(1);
        assert!(tried.has(1) && !tried.has(0));
        assert_eq!((tried.left(2), tried.left(100)), (1, 63));
        tried.add(0);
        assert_eq!(tried.left(2), 0);
        (0..100).for_each(|member| tried.add(member));
        assert_eq!(tried.left(100), 0);
    }
}
