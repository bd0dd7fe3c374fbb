//! The one source of randomness of a simulated world: the same seed draws the same numbers on every machine.

/// SplitMix64: small, fast, and good enough to pick faults with.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // Neighbouring seeds must not give neighbouring worlds.
        let mut rng = Self { state: seed ^ 0x5851_F42D_4C95_7F2D };
        rng.draw();
        rng
    }

    /// Any 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 where that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        let limit = limit as u64;
        if limit == 0 { 0 } else { usize::try_from(self.draw() % limit).unwrap_or(0) }
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = u64::try_from(high.saturating_sub(low)).unwrap_or(0).saturating_add(1);
        low.saturating_add(i64::try_from(self.draw() % span).unwrap_or(0))
    }

    /// True in so many of a thousand cases.
    pub fn per_mille(&mut self, share: u32) -> bool {
        self.draw() % 1000 < u64::from(share)
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, share: u32) -> bool {
        self.per_mille(share * 10)
    }

    /// One of them; `None` where there is none.
    pub fn pick<'a, T>(&mut self, among: &'a [T]) -> Option<&'a T> {
        among.get(self.below(among.len()))
    }

    /// Mostly short, sometimes long: a delay in milliseconds as networks and disks have them.
    pub fn delay(&mut self, usual: i64, worst: i64) -> i64 {
        if self.per_mille(30) { self.between(usual, worst) } else { self.between(0, usual) }
    }
}
