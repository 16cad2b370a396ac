// A program that does nothing: what the start and the end of a process take.
int main() { return 0; }
