//! The number of receive buffers that the kernel has: twice as many as a recent turn has used, so that the buffers in
//! use are few, and receives find one. A turn is the time between two calls of [`Window::turn`].

/// Minimum number of buffers.
const MIN_BUFFERS: usize = 16;
/// The number of turns after which the window may shrink.
const TURNS: u32 = 4096;

/// The adaptive number of buffers.
pub(crate) struct Window {
    size: usize,
    /// The number of buffers in the pool.
    max_size: usize,
    /// Buffers used in this turn, and the maximum of any turn since `turns` was zero.
    used: usize,
    peak: usize,
    turns: u32,
}

impl Window {
    /// A window onto a pool of `max_size` buffers.
    pub(crate) fn new(max_size: u16) -> Self {
        let max_size = usize::from(max_size);
        Self { size: MIN_BUFFERS.min(max_size), max_size, used: 0, peak: 0, turns: 0 }
    }

    /// Counts a buffer that the kernel has used.
    #[inline]
    pub(crate) fn used(&mut self) {
        self.used += 1;
    }

    /// Records that a receive found no buffer.
    pub(crate) fn was_starved(&mut self) {
        // The receives of one turn may all have found none.
        self.used = self.used.max(self.size);
    }

    /// Begins a turn. Returns the number of buffers that the kernel should have.
    #[inline]
    pub(crate) fn turn(&mut self) -> usize {
        self.peak = self.peak.max(std::mem::take(&mut self.used));
        self.turns += 1;
        let wanted = (2 * self.peak).max(MIN_BUFFERS).min(self.max_size);
        self.size = self.size.max(wanted);
        if self.turns == TURNS {
            (self.size, self.peak, self.turns) = (wanted, 0, 0);
        }
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(window: &mut Window, used: usize) -> usize {
        (0..used).for_each(|_| window.used());
        window.turn()
    }

    #[test]
    fn it_follows_the_use() {
        let mut window = Window::new(1000);
        assert_eq!(turn(&mut window, 0), MIN_BUFFERS);
        assert_eq!(turn(&mut window, 8), 16);
        assert_eq!(turn(&mut window, 100), 200);
        assert_eq!(turn(&mut window, 1), 200);
        assert_eq!(turn(&mut window, 900), 1000, "all");
        (0..TURNS).for_each(|_| _ = turn(&mut window, 30));
        (0..TURNS).for_each(|_| _ = turn(&mut window, 30));
        assert_eq!(turn(&mut window, 30), 60);
    }

    #[test]
    fn it_doubles_when_receives_find_no_buffer() {
        let mut window = Window::new(100);
        let sizes = [0; 4].map(|_| {
            window.was_starved();
            window.was_starved();
            window.turn()
        });
        assert_eq!(sizes, [32, 64, 100, 100]);
        assert_eq!(Window::new(3).turn(), 3);
    }
}
