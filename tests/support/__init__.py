"""What the tests stand on: isolated nodes, the plugin runner, snapshots, the test runner."""
