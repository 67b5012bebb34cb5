//! The protocol, checked exhaustively; and the checker, checked with planted flaws.

use std::time::Instant;

use hapax_testkit::model::{Config, check};

#[test]
fn the_protocol_keeps_its_rules_in_every_configuration() {
    for config in Config::ALL {
        let start = Instant::now();
        let checked = check(config);
        println!("{checked} in {:?}", start.elapsed());
        println!("   {:?}", checked.seen);
    }
}
