# .cu files in the words of dialect.h: launches, and shared memory whose size is given at the launch.
use strict;
use warnings;
local $/;
# A kernel whose template arguments are deduced has no address before it is called: what is set by address is not known of
# it.
sub launch {
  my ($kernel, $shape) = @_;
  my $address = $kernel =~ /</ ? "(const void *)$kernel" : "nullptr";
  return "EmulatedLaunch($shape).call(\"$kernel\", $address, [](auto... a) { $kernel(a...); }, ";
}
print "#include \"dialect.h\"\n";
for my $name (@ARGV) {
  open my $file, "<", $name or die "$name: $!\n";
  my $text = <$file>;
  $text =~ s/\bextern\s+__shared__\s+(\w+)\s+(\w+)\[\];/$1 *$2 = ($1 *)emulated_dynamic_shared();/g;
  # what a block's shared memory holds before it is written is nothing to count on
  $text =~ s/\b__shared__\s+(\w+)\s+(\w+)((?:\[[^\]]+\])+);/static thread_local $1 $2$3; emulated_shared($2, sizeof $2);/g;
  die "$name: shared memory is left that no word of dialect.h is for\n" if $text =~ /__shared__/;
  $text =~ s/(\w+(?:<[\w\s,]+>)?)\s*<<<(.*?)>>>\s*\(/launch($1, $2)/seg;
  die "$name: a launch is left\n" if $text =~ /<<</;
  print "#line 1 \"$name\"\n$text";
}
