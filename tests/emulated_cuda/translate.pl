# .cu files in the words of dialect.h: launches, and shared memory whose size is given at the launch.
use strict;
use warnings;
local $/;
# A kernel whose template arguments are deduced has no address before it is called: what is set by address is not known of
# it.
sub launch {
  my ($kernel, $shape) = @_;
  my $address = $kernel =~ /</ ? "(const void *)$kernel" : "nullptr";
  return "EmulatedLaunch($shape).call(EMULATED_TEXT($kernel), $address, [](auto... a) { $kernel(a...); }, ";
}
# A header of kernels beside them is translated in its place.
my %seen;
sub translated {
  my ($name) = @_;
  return "" if $seen{$name}++;
  open my $file, "<", $name or die "$name: $!\n";
  my $text = <$file>;
  $text =~ s/^#pragma once$//m;
  $text =~ s/\bextern\s+__shared__\s+(\w+)\s+(\w+)\[\];/$1 *$2 = ($1 *)emulated_dynamic_shared();/g;
  # what a block's shared memory holds before it is written is nothing to count on
  $text =~ s/\b__shared__\s+(\w+)\s+(\w+)((?:\[[^\]]+\])+);/static thread_local $1 $2$3; emulated_shared($2, sizeof $2);/g;
  die "$name: shared memory is left that no word of dialect.h is for\n" if $text =~ /__shared__/;
  $text =~ s/(\w+(?:<[\w\s,]+>)?)\s*<<<(.*?)>>>\s*\(/launch($1, $2)/seg;
  die "$name: a launch is left\n" if $text =~ /<<</;
  my ($folder) = $name =~ m{^(.*/)?[^/]+$};
  $text =~ s{^(#include "(\w+\.cuh)")$}{
    my $line = 1 + (substr($text, 0, $-[0]) =~ tr/\n//);
    -e "$folder$2" ? translated("$folder$2") . "\n#line $line \"$name\"" : $1;
  }mge;
  return "#line 1 \"$name\"\n$text";
}
print "#include \"dialect.h\"\n";
print translated($_) for @ARGV;
