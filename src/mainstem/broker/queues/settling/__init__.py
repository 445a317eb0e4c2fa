"""What becomes of delivered messages: settled, returned, given up, rewound."""
